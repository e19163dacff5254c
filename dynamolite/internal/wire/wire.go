// Package wire is the AWS JSON 1.0 protocol of DynamoDB as a server speaks it: [Decode] reads the body
// of a request into an input of the SDK, an [Encoder] writes an output or an error of the SDK.
//
// Outputs and errors describe themselves: the SDK generates a Serialize method for every shape, and
// the Encoder is what it calls. Inputs have no such method for the way in. Their fields bear the
// names of the wire, which a test holds against what Serialize writes, so the json package reads
// them; only attribute values, a union that it cannot know, are read here.
//
// Where DynamoDB's behaviour is not documented, this is what was decided:
//   - A member that appears twice is refused. Which of the two counts would be anybody's guess.
//   - null is the same as absent: for a member of a structure and for a data type of an attribute value.
//   - A member that is not known is ignored, whatever it holds.
package wire

// Error codes, as in the API.
const (
	SerializationException = "SerializationException" // the body is not JSON, or not of the operation's types
	ValidationException    = "ValidationException"    // an attribute value is none
)

// Error tells why a body was refused: one of the codes above, and what to do about it.
type Error struct {
	Code    string
	Message string
}

// Error is the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// maxLevels bounds how deep lists and maps of one attribute value are nested, because reading them
// recurses. DynamoDB allows 32, which the engine checks. What is ignored may be nested deeper: the
// json package stops at 10,000.
const maxLevels = 48

var (
	errEmpty = &Error{ValidationException, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"}
	errMore  = &Error{ValidationException, "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"}
	errNull  = &Error{ValidationException, "One or more parameter values were invalid: A set may not have a null as a member"}
	errDepth = &Error{ValidationException, "Nesting Levels have exceeded supported limits"}
)
