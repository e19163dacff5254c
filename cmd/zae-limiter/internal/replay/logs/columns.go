package logs

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// A value is what a line has in a column.
type value struct {
	text    []byte // may share the memory of the line
	rank    int32  // that of its destination, 0 if there is no value
	isOther bool   // the text says what there is instead of a text or a number
}

func (v *value) isAbsent() bool { return isAbsent(v.text) }

// isAbsent reports whether a text stands for no value.
func isAbsent(text []byte) bool { return len(text) == 0 || len(text) == 1 && text[0] == '-' }

// A destination is a value to make of a column.
type destination struct {
	place int // among the values
	// rank orders the columns that a value may come from: the lowest that is not absent counts.
	rank int32
	source
}

// put notes a value, unless there is one of a lower rank. Most columns come from one place as
// they are, and for them it calls nothing.
func (d *destination) put(values []value, text []byte) {
	v := &values[d.place]
	if d.part == nil && v.rank == 0 {
		v.text, v.rank = text, d.rank
		return
	}
	d.putPart(values, text)
}

func (d *destination) putPart(values []value, text []byte) {
	if d.part != nil {
		text = d.part(text)
		if d.isAddress && !isAbsent(text) && !isAddress(text) {
			d.refuse(values, "no address")
			return
		}
	}
	v := &values[d.place]
	if v.rank == 0 || v.isAbsent() || d.rank < v.rank && !isAbsent(text) {
		v.text, v.rank, v.isOther = text, d.rank, false
	}
}

// refuse notes that there is something else than a text, unless there is a value of a lower
// rank.
func (d *destination) refuse(values []value, other string) {
	if v := &values[d.place]; v.isAbsent() || d.rank < v.rank {
		*v = value{text: []byte(other), rank: d.rank, isOther: true}
	}
}

// A source is a column from which another is made.
type source struct {
	of        string
	part      func([]byte) []byte // nil is the whole
	isAddress bool                // the part must be an address
}

// derived are columns that are made of others: of the first that a line has.
var derived = map[string][]source{
	"method":   {{of: "request", part: method}},
	"target":   {{of: "request", part: target}},
	"path":     {{of: "request", part: func(v []byte) []byte { return path(target(v)) }}},
	"protocol": {{of: "request", part: protocol}},
	"client_ip": {
		// Other logs may have something else where those of nginx's packages have this column.
		{of: "forwarded_for", part: item(0), isAddress: true},
		{of: "http_x_forwarded_for", part: item(0), isAddress: true},
		{of: "client", part: withoutPort},
		{of: "host"},
		{of: "remote_addr"},
	},
}

// isAddress reports whether a text is an address, with or without a port.
func isAddress(text []byte) bool {
	_, err := netip.ParseAddr(string(text))
	if err != nil {
		_, err = netip.ParseAddrPort(string(text))
	}
	return err == nil
}

// destinations are what to make of each column of a log that names them. It fails with a
// [store.ValidationError] if the log does not have a wanted column, or has it twice.
func destinations(names, wanted []string) ([][]destination, error) {
	all := make([][]destination, len(names))
	for place, column := range wanted {
		found := false
		for rank, s := range sources(names, column) {
			i := slices.Index(names, s.of)
			if i < 0 {
				continue
			}
			if slices.Contains(names[i+1:], s.of) {
				return nil, &store.ValidationError{Field: "header", Value: s.of, Reason: "the log has two columns of this name: rename one"}
			}
			found = true
			all[i] = append(all[i], destination{place, int32(rank) + 1, s})
		}
		if !found {
			return nil, &store.ValidationError{Field: "column", Value: column, Reason: "the log has " + strings.Join(names, ", ")}
		}
	}
	return all, nil
}

// sources are the columns from which a wanted one can be made.
func sources(names []string, column string) []source {
	if slices.Contains(names, column) {
		return []source{{of: column}}
	}
	if list, n, ok := indexed(column); ok {
		return []source{{of: list, part: item(n)}}
	}
	return derived[column]
}

// indexed takes NAME[N] apart.
func indexed(column string) (name string, n int, ok bool) {
	name, index, ok := strings.Cut(strings.TrimSuffix(column, "]"), "[")
	if !ok || !strings.HasSuffix(column, "]") {
		return "", 0, false
	}
	n, err := strconv.Atoi(index)
	return name, n, err == nil
}

// item is a value of a list with commas: 0 is the first, -1 the last.
func item(n int) func([]byte) []byte {
	return func(list []byte) []byte {
		for range n {
			i := bytes.IndexByte(list, ',')
			if i < 0 {
				return nil
			}
			list = list[i+1:]
		}
		if n >= 0 {
			first, _, _ := bytes.Cut(list, []byte{','})
			return bytes.TrimSpace(first)
		}
		for range -n - 1 {
			i := bytes.LastIndexByte(list, ',')
			if i < 0 {
				return nil
			}
			list = list[:i]
		}
		return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])
	}
}

// method is the first word of a request.
func method(request []byte) []byte {
	first, _, _ := bytes.Cut(request, []byte{' '})
	return first
}

// target is what a request has between its method and its protocol. It may have spaces.
func target(request []byte) []byte {
	_, after, _ := bytes.Cut(request, []byte{' '})
	if last := protocol(request); last != nil {
		return after[:len(after)-len(last)-1]
	}
	return after
}

// protocol is the last word of a request with three or more, nil if that is none.
func protocol(request []byte) []byte {
	_, after, _ := bytes.Cut(request, []byte{' '})
	if i := bytes.LastIndexByte(after, ' '); i >= 0 && bytes.HasPrefix(after[i+1:], []byte("HTTP/")) {
		return after[i+1:]
	}
	return nil
}

// path is a request's target without scheme, host and query.
func path(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if _, after, ok := bytes.Cut(target, []byte("://")); ok {
		i := bytes.IndexByte(after, '/')
		if i < 0 {
			return []byte{'/'}
		}
		return after[i:]
	}
	return target
}

// withoutPort is an address without its port.
func withoutPort(address []byte) []byte {
	i := bytes.LastIndexByte(address, ':')
	if i < 0 || address[0] != '[' && bytes.IndexByte(address[:i], ':') >= 0 { // of version 6 without a port
		return address
	}
	return bytes.Trim(address[:i], "[]")
}
