// Package differential holds no code but tests: the suite that sends the same
// requests to dynamolite and to DynamoDB Local and compares everything but
// message texts: answers, error types, the images that errors carry, cancellation
// reasons, consumed capacity, and the items that are there in the end.
//
// A case is data, declared once. make conformance runs all of them on both
// engines; make golden records what DynamoDB Local answers in testdata, and make
// test replays that with nothing installed, on a database in process and over its
// HTTP handler. What AWS promises no order for is given one, or put together; see
// kinds_test.go. Where DynamoDB Local departs from AWS, the deviations say what
// AWS answers, and that is what dynamolite is held to.
package differential
