package acquire

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// total adds up amounts, by limit name.
func total(all [][]store.Amount) (sum []store.Amount) {
	for _, amounts := range all {
		sum = addTo(sum, amounts)
	}
	return sum
}

// addTo adds amounts to a sum, which is ordered by limit name.
func addTo(sum, amounts []store.Amount) []store.Amount {
	for _, a := range amounts {
		i, found := slices.BinarySearchFunc(sum, a.Limit, func(s store.Amount, name string) int { return strings.Compare(s.Limit, name) })
		if !found {
			sum = slices.Insert(sum, i, store.Amount{Limit: a.Limit})
		}
		sum[i].Milli += a.Milli
	}
	return sum
}

// negated returns amounts with the opposite sign: the credit of a debit.
func negated(amounts []store.Amount) []store.Amount {
	back := make([]store.Amount, 0, len(amounts))
	for _, a := range amounts {
		back = append(back, store.Amount{Limit: a.Limit, Milli: -a.Milli})
	}
	return back
}

// claimAmounts returns a request's amounts by limit name, in millitokens.
func claimAmounts(consume map[string]int64) []store.Amount {
	amounts := make([]store.Amount, 0, len(consume))
	for name, tokens := range consume {
		i := len(amounts)
		amounts = append(amounts, store.Amount{})
		for ; i > 0 && strings.Compare(amounts[i-1].Limit, name) > 0; i-- {
			amounts[i] = amounts[i-1]
		}
		amounts[i] = store.Amount{Limit: name, Milli: tokens * store.Milli}
	}
	return amounts
}
