package search

// Of the intervals.
const Tail = tail

// Of the intervals.
var (
	Student  = student
	Binomial = binomial
)
