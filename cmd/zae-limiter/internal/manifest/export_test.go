package manifest

// DigestOf is the digest of limits that a table keeps.
var DigestOf = digestOf
