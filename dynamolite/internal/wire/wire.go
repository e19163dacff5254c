// Package wire is the AWS JSON 1.0 protocol of DynamoDB from the server's side (ADR 012).
// [Decode] reads the body of a request into an input of the SDK; an [Encoder] writes an output or
// an error of the SDK.
//
// Outputs and errors describe themselves: the SDK generates a Serialize method for every shape,
// and it calls the Encoder. Inputs have no such method for decoding. Their fields have the names
// of the wire, which a test checks against the output of Serialize, so the json package reads
// them. This package reads only attribute values, a union that the json package cannot know.
//
// Where DynamoDB's behaviour is not documented, these rules apply:
//   - A member that appears twice is an error, because neither value is more valid than the
//     other.
//   - null is the same as absent: for a member of a structure and for a data type of an attribute
//     value.
//   - An unknown member is ignored, whatever its value.
package wire

// Error codes, as in the API.
const (
	SerializationException = "SerializationException" // the body is not JSON, or not of the operation's types
	ValidationException    = "ValidationException"    // a value is not an attribute value
)

// Error is the reason that a body is invalid: one of the codes above, and what to do about it.
type Error struct {
	Code    string
	Message string
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// maxLevels limits the nesting of lists and maps in one attribute value, because reading them
// recurses. DynamoDB allows 32, which the engine checks. Ignored members may be nested deeper: the
// json package stops at 10,000. The value leaves room above 32, so that a value a little too deep
// gets the engine's error, like any caller in the process.
const maxLevels = 48

var (
	errEmpty = &Error{ValidationException, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"}
	errMore  = &Error{ValidationException, "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"}
	errNull  = &Error{ValidationException, "One or more parameter values were invalid: A set may not have a null as a member"}
	errDepth = &Error{ValidationException, "Nesting Levels have exceeded supported limits"}
)
