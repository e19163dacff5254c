package api

import "fmt"

// The lengths of the names of tables and indexes, in bytes.
const (
	MinNameLength = 3 // of a table or an index
	maxNameLength = 255
)

// CheckTableName validates the name of a table.
func CheckTableName(name string) error { return CheckName("tableName", name, MinNameLength) }

// CheckName validates the name of a table or an index, which has a least length.
func CheckName(field, name string, least int) error {
	switch {
	case len(name) < least:
		return Unfit("'"+name+"'", field, fmt.Sprintf("Member must have length greater than or equal to %d", least))
	case len(name) > maxNameLength:
		return Unfit("'"+name+"'", field, fmt.Sprintf("Member must have length less than or equal to %d", maxNameLength))
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return Unfit("'"+name+"'", field, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
		}
	}
	return nil
}
