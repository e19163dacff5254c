package api

import (
	"fmt"
	"strings"
)

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

// TableARN returns the ARN of a table, in an account of zeros and a region of our own.
func TableARN(name string) string { return "arn:aws:dynamodb:dynamolite:000000000000:table/" + name }

// PlainTableName returns the name in the ARN of a table, or the text itself if it is no such ARN.
// The engine has one account and one region, so it accepts the ARN of a table in any.
func PlainTableName(text string) string {
	const parts = 6 // arn, partition, service, region, account, resource
	fields := strings.SplitN(text, ":", parts)
	if len(fields) != parts || fields[0] != "arn" || fields[1] == "" || fields[2] != "dynamodb" || fields[3] == "" || fields[4] == "" {
		return text
	}
	name, ok := strings.CutPrefix(fields[parts-1], "table/")
	if !ok {
		return text
	}
	return name
}

// IndexARN returns the ARN of an index of a table.
func IndexARN(table, index string) string { return table + "/index/" + index }
