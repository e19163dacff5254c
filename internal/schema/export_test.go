package schema

// SplitLimitAttr is exported for the test that it inverts LimitAttr.
var SplitLimitAttr = splitLimitAttr
