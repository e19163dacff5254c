package stackarg

// FlagOf are the flags by the options that they set.
var FlagOf = flagOf
