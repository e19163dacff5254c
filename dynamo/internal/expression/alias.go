package expression

import "strings"

// alias is the alias of a value of limit or shard number i: a capital letter, given as
// 'a' to 'z', and the number. No other alias begins with a capital letter. It comes from
// [sharedAliases] without an allocation, unless the number is large.
func alias(letter byte, i int) string {
	if at := (i*letters + int(letter-'a')) * sharedAliasLen; at < len(sharedAliases) {
		return sharedAliases[at : at+sharedAliasLen]
	}
	return newAlias(letter, i)
}

func newAlias(letter byte, i int) string { return ":" + string(rune('A'+letter-'a')) + ordinal(i) }

const (
	letters        = 26 // that an alias may have
	sharedAliasLen = len(":A0")
)

// sharedAliases are the aliases of the first numbers one after the other, by number and
// letter. Every write shares them as parts of this one string.
var sharedAliases = func() string {
	const numbers = 16
	var b strings.Builder
	b.Grow(numbers * letters * sharedAliasLen)
	for i := range numbers {
		for letter := range byte(letters) {
			b.WriteString(newAlias('a'+letter, i))
		}
	}
	return b.String()
}()

// ordinal is the number at the end of an alias: one character up to 61.
func ordinal(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if i < len(digits) {
		return digits[i : i+1]
	}
	return ordinal(i/len(digits)) + ordinal(i%len(digits))
}
