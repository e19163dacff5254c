package manifest

import _ "embed"

// Schema is the JSON Schema of a manifest (draft 2020-12), for editors. It accepts what
// [Parse] accepts. It also accepts some files that Parse refuses: it cannot see a key that
// is given twice, compare a capacity with a burst, see that a rate is too large or that entities
// make a circle, or read a calendar.
//
//go:embed schema.json
var Schema []byte
