package expr

// Internals for the tests.
var ReservedWords = reservedWords()

// MaxCached is the bound of a cache.
const MaxCached = maxCached

// CachedConditions returns how many condition texts are kept.
func CachedConditions() int { return len(*conditions.trees.Load()) }
