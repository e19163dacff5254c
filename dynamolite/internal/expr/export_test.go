package expr

// Internals for the tests.
var ReservedWords = reservedWords

// MaxCached is the bound of a cache.
const MaxCached = maxCached

// CachedConditions is how many condition texts are kept.
func CachedConditions() int { return len(*conditions.trees.Load()) }
