package logs

// SplitJSON finds columns of a line in JSON as the decoder does, and as the scanner of plain
// lines does. ok says whether the line is plain.
func SplitJSON(line []byte, columns ...string) (decoded [][]byte, err error, plain [][]byte, ok bool) { //nolint:staticcheck // the error belongs to the first result
	j := newJSON(columns)
	decoded, plain = make([][]byte, len(columns)), make([][]byte, len(columns))
	err = j.decode(line, decoded)
	return decoded, err, plain, j.plain.split(j.root, line, plain)
}
