package schema

// SplitLimitAttr is exported for the test that it inverts LimitAttr.
var SplitLimitAttr = splitLimitAttr

// ScalarOf is exported for tests that give attributes in another form.
var ScalarOf = scalarOf
