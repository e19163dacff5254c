package api

import "strings"

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
