package logs

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// The columns of the formats, in their order. Those of a load balancer are as AWS names
// them; a line may end before the last ones, which came with later versions.
var (
	commonColumns   = []string{"host", "ident", "user", "time", "request", "status", "bytes"}
	combinedColumns = append(slices.Clone(commonColumns), "referer", "user_agent")
	albColumns      = []string{
		"type", "time", "elb", "client", "target", "request_processing_time", "target_processing_time",
		"response_processing_time", "elb_status_code", "target_status_code", "received_bytes", "sent_bytes", "request",
		"user_agent", "ssl_cipher", "ssl_protocol", "target_group_arn", "trace_id", "domain_name", "chosen_cert_arn",
		"matched_rule_priority", "request_creation_time", "actions_executed", "redirect_url", "error_reason",
		"target_port_list", "target_status_code_list", "classification", "classification_reason", "conn_trace_id",
	}
)

// derived are columns that are parts of others.
var derived = map[string]struct {
	of   string
	part func([]byte) []byte
}{
	"method":    {"request", func(v []byte) []byte { return word(v, 0) }},
	"target":    {"request", func(v []byte) []byte { return word(v, 1) }},
	"path":      {"request", func(v []byte) []byte { return path(word(v, 1)) }},
	"protocol":  {"request", func(v []byte) []byte { return word(v, 2) }},
	"client_ip": {"client", withoutPort},
}

// accessLine finds columns of lines whose values are words, quoted texts, or in brackets.
type accessLine struct {
	columns [][]destination // for each column up to the last wanted one
}

// A destination is a value to make of a column.
type destination struct {
	place int
	part  func([]byte) []byte // nil is the whole
}

func newAccess(format Format, wanted []string) (*accessLine, error) {
	names := commonColumns
	switch format {
	case Combined:
		names = combinedColumns
	case ALB:
		names = albColumns
	default: // Common
	}
	a, last := &accessLine{columns: make([][]destination, len(names))}, 0
	for i, column := range wanted {
		d, of := destination{place: i}, column
		// A load balancer's own column "target" is no part of the request.
		if part, ok := derived[column]; ok && !slices.Contains(names, column) {
			d.part, of = part.part, part.of
		}
		place := slices.Index(names, of)
		if place < 0 {
			return nil, missing(column, names)
		}
		a.columns[place] = append(a.columns[place], d)
		last = max(last, place)
	}
	a.columns = a.columns[:last+1]
	return a, nil
}

// missing says that a log does not have a column.
func missing(column string, names []string) error {
	return &store.ValidationError{
		Field: "column", Value: column, Reason: "the log has " + strings.Join(names, ", "),
	}
}

var (
	errEnds  = &lineError{"it ends before the last column that is read"}
	errQuote = &lineError{"a quote or bracket is not closed"}
)

// split reads a line up to the last wanted column.
func (a *accessLine) split(line []byte, values [][]byte) error {
	for _, destinations := range a.columns {
		for len(line) > 0 && line[0] == ' ' {
			line = line[1:]
		}
		if len(line) == 0 {
			return errEnds
		}
		value, rest, err := token(line)
		if err != nil {
			return err
		}
		for _, d := range destinations {
			v := value
			if d.part != nil {
				v = d.part(value)
			}
			values[d.place] = v
		}
		line = rest
	}
	return nil
}

// token reads a word, a quoted text or what is in brackets. In a quoted text a backslash
// stands before a quote that does not end it. The text keeps its backslashes.
func token(line []byte) (value, rest []byte, err error) {
	switch line[0] {
	case '[':
		end := bytes.IndexByte(line, ']')
		if end < 0 {
			return nil, nil, errQuote
		}
		if end+1 == len(line) || line[end+1] == ' ' {
			return line[1:end], line[end+1:], nil
		}
		// An address like [2001:db8::7]:80 is a word.
	case '"':
		return quotedText(line)
	}
	end := bytes.IndexByte(line, ' ')
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:], nil
}

// quotedText reads a text up to the quote that ends it.
func quotedText(line []byte) (value, rest []byte, err error) {
	for from := 1; ; {
		i := bytes.IndexByte(line[from:], '"')
		if i < 0 {
			return nil, nil, errQuote
		}
		end := from + i
		if text := line[from:end]; (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 0 {
			return line[1:end], line[end+1:], nil
		}
		from = end + 1
	}
}

// word is the word of a number in a text, nil if there are fewer.
func word(text []byte, number int) []byte {
	for ; number > 0; number-- {
		_, after, ok := bytes.Cut(text, []byte{' '})
		if !ok {
			return nil
		}
		text = after
	}
	first, _, _ := bytes.Cut(text, []byte{' '})
	return first
}

// path is a request's target without scheme, host and query.
func path(target []byte) []byte {
	if _, after, ok := bytes.Cut(target, []byte("://")); ok {
		i := bytes.IndexByte(after, '/')
		if i < 0 {
			return []byte{'/'}
		}
		target = after[i:]
	}
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	return target
}

// withoutPort is an address without its port.
func withoutPort(address []byte) []byte {
	if i := bytes.LastIndexByte(address, ':'); i >= 0 {
		return bytes.Trim(address[:i], "[]")
	}
	return address
}
