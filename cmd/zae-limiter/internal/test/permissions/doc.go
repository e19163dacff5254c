// Package permissions keeps docs/permissions.md true: the tables that say which policy allows
// which command and library call.
//
// Tests run every library call and every command on the embedded engine, record their
// requests, and compare them with the files in recorded. A change of requests changes these
// files. A judge that is not part of this project, IAM Simulate, says which policies of the
// template allow the recorded requests. It needs Node, so it runs in make conformance. Its
// verdicts are in recorded, too, with a checksum of the policies that it judged.
package permissions
