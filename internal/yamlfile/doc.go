// Package yamlfile reads configuration files in YAML or JSON node by node. It collects
// everything that is wrong with a file, each finding with line, column, path, reason and
// what to do, instead of the first mistake only.
//
// # Files from elsewhere
//
// Aliases are followed when their place in the file is read, and are not expanded before.
// So a short file can stand for far more values than it has bytes. A [Reader] stops after
// [MaxFindings] findings. Its callers bound the number of values that they keep.
package yamlfile
