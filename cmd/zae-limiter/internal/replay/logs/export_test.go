package logs

// SplitJSON finds columns of a line in JSON as the decoder does, and as the scanner of plain
// lines does. ok says whether the line is plain.
func SplitJSON(line []byte, columns ...string) (decoded []string, err error, plain []string, ok bool) { //nolint:staticcheck // the error belongs to the first result
	j := newJSON(columns)
	values := make([]value, len(columns))
	j.pass++
	ok = j.plain.split(j.root, j.pass, line, values)
	plain = texts(values)
	clear(values)
	err = j.decode(line, values)
	return texts(values), err, plain, ok
}

func texts(values []value) (all []string) {
	for _, v := range values {
		all = append(all, string(v.text))
	}
	return all
}
