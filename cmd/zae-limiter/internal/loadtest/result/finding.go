package result

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// A Weight says how much a finding matters.
type Weight string

// The weights.
const (
	Good    Weight = "good"
	Note    Weight = "note"    // the figures hold, with a restriction
	Serious Weight = "serious" // answers are wrong, or figures are not those of the limiter
)

// A Finding is one sentence of the judgement on a result.
type Finding struct {
	Weight Weight `json:"weight"`
	Text   string `json:"text"`
}

// Findings judge the result, the whole run first, then each side: whether the figures are
// reliable, whether answers were wrong, whether the books balance with the table, and whether
// there were errors.
func (r *Result) Findings() []Finding {
	var all []Finding
	switch {
	case r.Unreliable != "":
		all = append(all, Finding{Serious, "The figures are not those of the limiter: " + r.Unreliable})
	case r.Operations() == 0:
		all = append(all, Finding{Serious, "No operation was answered, so nothing was measured."})
	default:
		all = append(all, Finding{Good, "The generator kept up: the figures are those of the limiter and its store."})
	}
	if r.Interrupted {
		all = append(all, Finding{Note, "The run was interrupted: what is missing was not measured, and the last phase is shorter than planned."})
	}
	for i := range r.Sides {
		all = append(all, r.Sides[i].findings()...)
	}
	return all
}

// Worst is the greatest weight of some findings, [Good] of none.
func Worst(findings []Finding) Weight {
	worst := Good
	for _, f := range findings {
		if f.Weight == Serious || f.Weight == Note && worst == Good {
			worst = f.Weight
		}
	}
	return worst
}

func (s *Side) findings() []Finding {
	var all []Finding
	add := func(w Weight, format string, args ...any) {
		all = append(all, Finding{w, "Side " + s.Name + ": " + fmt.Sprintf(format, args...)})
	}
	switch {
	case s.Wrong == nil: // it is no limiter
	case s.Wrong.Answers() > 0:
		add(Serious, "%s wrong answers: %s tokens admitted beyond the entitlement, %s refusals although the capacity covered all requests.",
			grouped(s.Wrong.Answers()), grouped(s.Wrong.Beyond), grouped(s.Wrong.Refusals))
	default:
		add(Good, "no wrong answers.")
	}
	if text := s.Unthrottled(); text != "" {
		add(Note, "%s", text)
	}
	all = append(all, s.balance()...)
	answers := s.Answers()
	if n := answers.Errors(); n > 0 {
		const percent = 100
		first := ""
		if answers.FirstError != "" {
			first = " The first: " + answers.FirstError
		}
		add(Note, "%s of %s operations (%.3g %%) ended without an answer: %s throttled, %s unavailable, %s other errors.%s",
			grouped(n), grouped(answers.Operations), percent*Share(n, answers.Operations),
			grouped(answers.Throttled), grouped(answers.Unavailable), grouped(answers.Failed), first)
	} else if answers.Operations > 0 {
		add(Good, "every operation was answered.")
	}
	return all
}

// Unthrottled says that the side bare met no limit of its items, so that it shows nothing of them.
// It is "" of a limiter, and if writes were throttled.
func (s *Side) Unthrottled() string {
	var sent, throttled int64
	for i := range s.Phases {
		for _, p := range s.Phases[i].Populations {
			sent, throttled = sent+p.Writes.Sent, throttled+p.Writes.Throttled
		}
	}
	if s.Wrong != nil || sent == 0 || throttled > 0 {
		return ""
	}
	return "no write was throttled. The load is below what an item takes, or the store has no partition limits, " +
		"as DynamoDB Local, and zae-limiter local without --partition-limits."
}

// balance judges the comparison of the books with the table.
func (s *Side) balance() []Finding {
	b := s.Balance
	if b == nil {
		if s.Wrong == nil {
			return nil // it is no limiter
		}
		return []Finding{{Note, "Side " + s.Name + ": the books could not be compared with the table."}}
	}
	f := Finding{Good, fmt.Sprintf("Side %s: the books balance with the table: %s tokens booked, %s found in %d buckets.",
		s.Name, grouped(b.Booked), grouped(b.Found), b.Buckets)}
	if b.Wrong > 0 {
		f = Finding{Serious, fmt.Sprintf("Side %s: the books do not balance: %s counters of %d buckets are outside of what the answers allow.",
			s.Name, grouped(b.Wrong), b.Buckets)}
		if b.FirstWrong != "" {
			f.Text += " The first: " + b.FirstWrong
		}
	} else if b.Open > 0 {
		f.Text += fmt.Sprintf(" Operations without an answer may have taken %s more.", grouped(b.Open))
	}
	if b.Expired+b.Left > 0 {
		f.Weight = Worst([]Finding{f, {Weight: Note}})
		f.Text += fmt.Sprintf(" Not compared: %d buckets whose items expired, and %d beyond the most that are compared.", b.Expired, b.Left)
	}
	return []Finding{f}
}

func grouped(n int64) string { return limitarg.Grouped(n) }

// IsWrong reports whether a side gave wrong answers, or has books that do not balance with
// the table.
func (r *Result) IsWrong() bool {
	for i := range r.Sides {
		if r.Sides[i].IsWrong() {
			return true
		}
	}
	return false
}

// IsWrong reports whether the side gave wrong answers, or has books that do not balance with
// the table.
func (s *Side) IsWrong() bool {
	return s.Wrong != nil && s.Wrong.Answers() > 0 || s.Balance != nil && s.Balance.Wrong > 0
}

// Operations is the number of answered operations of all sides, errors included.
func (r *Result) Operations() int64 {
	var n int64
	for i := range r.Sides {
		a := r.Sides[i].Answers()
		n += a.Operations
	}
	return n
}

// Answers is the sum of the answers of all phases and classes.
func (s *Side) Answers() Answers {
	var sum Answers
	for i := range s.Phases {
		sum.Add(s.Phases[i].Answers())
	}
	return sum
}

// Answers is the sum of the answers of all classes.
func (p *Phase) Answers() Answers {
	var sum Answers
	for i := range p.Classes {
		sum.Add(p.Classes[i].Answers)
	}
	return sum
}

// Add adds counts, and keeps the first error.
func (a *Answers) Add(b Answers) {
	a.Operations += b.Operations
	a.Admitted += b.Admitted
	a.Refused += b.Refused
	a.Throttled += b.Throttled
	a.Unavailable += b.Unavailable
	a.Failed += b.Failed
	if a.FirstError == "" {
		a.FirstError = b.FirstError
	}
}
