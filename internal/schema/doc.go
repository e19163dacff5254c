// Package schema is the wire format: the keys, the attribute names and the item codecs of a
// table that this library shares with its Python peer. No other package of the module
// spells a key or an attribute. Items are maps of the SDK's attribute values (ADR 004).
//
// Identifiers are checked where they enter a key and where they leave one. A builder
// requires names that [store.CheckEntity] and its siblings accept, and a parser rejects a
// key with other names. Decoders accept any item and ignore unknown attributes. For a known
// attribute that they cannot read, they return [*store.CorruptError].
package schema
