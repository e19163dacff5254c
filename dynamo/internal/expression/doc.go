// Package expression describes conditional writes of items.
//
// One function describes a kind of write: it states the operations of one write to a
// [Write], in order, with their values. From that come the write's values and a key,
// which encodes the operations without the values. [Cache] compiles a key to the text
// of the expressions when it first meets the key. The text depends on nothing but the
// key, so writes of one key have one text.
//
// Aliases are positional, because limit names may hold "." and "-". Writes that do the
// same to the same limits therefore have one key.
package expression
