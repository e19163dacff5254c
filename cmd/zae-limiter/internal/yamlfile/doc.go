// Package yamlfile reads configuration files in YAML or JSON node by node. It collects
// everything that is wrong with a file, each finding with line, column, path, reason and
// what to do, instead of the first mistake only.
//
// # Meaning
//
// A file means what PyYAML reads, which follows YAML 1.1: merge keys, numbers as 1_000,
// and yes as true. A [Reader] refuses what two programs may read differently, for instance
// a number in base 8, a name that is no string without quotes, and a key given twice. It
// ignores keys of the file itself that begin with x-: they hold anchors for aliases.
//
// # Files from elsewhere
//
// Aliases are followed when their place in the file is read, and are not expanded before.
// So a short file can stand for far more values than it has bytes. A [Reader] stops after
// [MaxFindings] findings, and bounds what merge keys bring in. Its callers bound the
// number of values that they keep.
package yamlfile
