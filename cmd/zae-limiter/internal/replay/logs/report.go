package logs

import "strconv"

// Malformed tells what of a log could not be read.
type Malformed struct {
	Lines   int64     `json:"lines"`             // all lines that were read, without empty ones and the header
	Count   int64     `json:"malformed"`         // lines that are left out
	Reasons []Reason  `json:"reasons,omitempty"` // why lines are left out, in the order of the first lines
	Lacking []Lack    `json:"lacking,omitempty"` // costs that events lack, which count for other limits
	Cut     []Problem `json:"cut,omitempty"`     // last lines whose last value may be cut off
}

// A Reason says why lines are left out.
type Reason struct {
	Lines int64   `json:"lines"` // lines with this reason
	First Problem `json:"first"` // the first of them
	kind  string
}

// A Lack is a cost that events lack. It counts as 0.
type Lack struct {
	Limit  string  `json:"limit_name"`
	Column string  `json:"column"` // of the cost
	Events int64   `json:"events"` // events that lack it
	First  Problem `json:"first"`  // the first of them
}

// A Problem is a line that could not be read.
type Problem struct {
	File   string `json:"file"` // name of the file
	Line   int64  `json:"line"` // number of the line
	Reason string `json:"reason"`
	Text   string `json:"text"` // the beginning of the line
}

// MaxReasons is the number of reasons that are told apart. Further ones count as one.
const MaxReasons = 20

// reason finds the reason of a kind, or adds it. It is new if it has no lines yet.
func (m *Malformed) reason(kind string) *Reason {
	for range 2 {
		for i := range m.Reasons {
			if m.Reasons[i].kind == kind {
				return &m.Reasons[i]
			}
		}
		if len(m.Reasons) < MaxReasons-1 {
			break
		}
		kind = "" // all others
	}
	m.Reasons = append(m.Reasons, Reason{kind: kind})
	return &m.Reasons[len(m.Reasons)-1]
}

// Add adds what another file tells.
func (m *Malformed) Add(other Malformed) {
	m.Lines += other.Lines
	m.Count += other.Count
	for _, r := range other.Reasons {
		have := m.reason(r.kind)
		if have.Lines == 0 {
			have.First = r.First
		}
		have.Lines += r.Lines
	}
	for _, l := range other.Lacking {
		m.lack(l)
	}
	m.Cut = append(m.Cut, other.Cut...)
}

func (m *Malformed) lack(l Lack) {
	for i := range m.Lacking {
		if have := &m.Lacking[i]; have.Limit == l.Limit && have.Column == l.Column {
			have.Events += l.Events
			return
		}
	}
	m.Lacking = append(m.Lacking, l)
}

// used is a copy without the costs that no event lacks.
func (m *Malformed) used() (used Malformed) {
	used.Lines, used.Count, used.Cut = m.Lines, m.Count, m.Cut
	used.Reasons = append(used.Reasons, m.Reasons...)
	for _, l := range m.Lacking {
		if l.Events > 0 {
			used.Lacking = append(used.Lacking, l)
		}
	}
	return used
}

// A lineError is what is wrong with a line.
type lineError struct {
	problem string
	detail  string // differs from line to line; may be ""
}

func (e *lineError) Error() string {
	if e.detail != "" {
		return e.problem + ": " + e.detail
	}
	return e.problem
}

func (e *lineError) kind() string { return e.problem }

// errMissing says that a line does not have a column.
var errMissing = &lineError{problem: "it is missing"}

// notText says that there is something else than a text or a number.
func notText(v *value) error { return &lineError{problem: "it is " + string(v.text)} }

// A columnError is what is wrong with a column of a line.
type columnError struct {
	column string
	err    error
}

func (e *columnError) Error() string { return "column " + e.column + ": " + e.err.Error() }
func (e *columnError) Unwrap() error { return e.err }
func (e *columnError) kind() string  { return "column " + e.column + ": " + kindOf(e.err) }

// A valueError is what is wrong with a value.
type valueError struct {
	value  []byte
	reason string
}

func (e *valueError) Error() string {
	const most = 40 // bytes of a value
	return strconv.Quote(string(e.value[:min(len(e.value), most)])) + ": " + e.reason
}

func (e *valueError) kind() string { return e.reason }

// kindOf is what is wrong, without what differs from line to line.
func kindOf(err error) string {
	if e, ok := err.(interface{ kind() string }); ok {
		return e.kind()
	}
	return err.Error()
}
