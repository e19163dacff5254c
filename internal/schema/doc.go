// Package schema is the wire format: the keys, the attribute names and the item
// codecs of a table that this library shares with its Python peer. Nothing else
// in the module spells a key or an attribute.
//
// Identifiers are checked where they enter a key and where they leave one: a
// builder is given names that [store.CheckEntity] and its siblings accepted,
// and a parser refuses a key whose names they refuse. Decoders take any item,
// ignore attributes they do not know, and answer [*store.CorruptError] for one
// they know and cannot read.
package schema
