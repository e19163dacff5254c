// Package differential contains only tests: the suite that sends the same requests to dynamolite
// and to DynamoDB Local. It compares everything but message texts: answers, error types, the
// images that errors carry, cancellation reasons, consumed capacity, and the items that exist in
// the end.
//
// A case is data, declared once. make conformance runs all cases on both engines. make golden
// records the answers of DynamoDB Local in testdata. make test replays them with nothing
// installed, on a database in the process and over its HTTP handler. Answers for which AWS
// promises no order are sorted or joined; see kinds_test.go. Where DynamoDB Local departs from
// AWS, the deviations state AWS's answer, and dynamolite must give that answer.
package differential
