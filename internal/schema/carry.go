package schema

import (
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// carriesDebt ends the code of a quota that carries a debt.
const carriesDebt = "d"

// EncodeCarry is what a quota carries, in tokens, as items of buckets and of configuration have
// it: the most that is rolled over, and "d" if a debt is carried: "200000", "200000d", "d". It
// is "" for nothing.
func EncodeCarry(c store.Carry) (code string) {
	if c.Rollover != 0 {
		code = strconv.FormatInt(c.Rollover, 10)
	}
	if c.Debt {
		code += carriesDebt
	}
	return code
}

// decodeCarry is the inverse of [EncodeCarry]; false if this version cannot evaluate the code.
func decodeCarry(code string) (c store.Carry, ok bool) {
	tokens, debt := strings.CutSuffix(code, carriesDebt)
	if c.Debt = debt; tokens == "" {
		return c, debt || code == ""
	}
	n, err := strconv.ParseInt(tokens, 10, 64)
	c.Rollover = n
	return c, err == nil && n >= 1 && n <= store.MaxTokens && EncodeCarry(c) == code
}

// EncodeCarried is the code of what a quota of a bucket item carries.
func EncodeCarried(p *store.Params) string {
	return EncodeCarry(store.Carry{Rollover: p.Carries.Rollover / store.Milli, Debt: p.Carries.Debt})
}

// decodeCarry reads what a limit carries; false if this version cannot evaluate that. Other
// limits than quotas of a calendar carry nothing: a peer that makes a limit another one leaves
// the attribute.
func (l *limitScan) decodeCarry() bool {
	if l.Renewal == nil || l.Renewal.Session() != 0 {
		return true
	}
	c, ok := decodeCarry(l.carries)
	l.Carries = store.Carry{Rollover: c.Rollover * store.Milli, Debt: c.Debt}
	return ok
}

// decodeCarry reads what the limit carries, like that of an item.
func (l *configScan) decodeCarry() (ok bool) {
	if l.Renews == nil || l.Renews.Session() != 0 {
		return true
	}
	l.Carries, ok = decodeCarry(l.carries)
	return ok
}
