package schema

// SplitLimitAttr is exported for the law that it inverts LimitAttr.
var SplitLimitAttr = splitLimitAttr
