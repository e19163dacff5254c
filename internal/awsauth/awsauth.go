// Package awsauth says why a service of AWS refuses a request's credentials. Services name
// the same condition with different codes.
package awsauth

import (
	"errors"

	"github.com/aws/smithy-go"
)

// A Fault says what is wrong with credentials.
type Fault uint8

// The faults.
const (
	None    Fault = iota // the service did not refuse the credentials
	Denied               // they are right, and do not permit the call
	Expired              // they were right once
	Wrong                // there are none, the key is unknown, or the signature does not match
)

var faults = map[string]Fault{
	"AccessDenied": Denied, "AccessDeniedException": Denied, "AccessDeniedError": Denied, "AccessDeniedFault": Denied, "Forbidden": Denied,
	"UnauthorizedOperation": Denied, "AuthorizationError": Denied, "KmsAccessDenied": Denied, "OptInRequired": Denied, "NotAuthorized": Denied,

	"ExpiredToken": Expired, "ExpiredTokenException": Expired, "RequestExpired": Expired,

	"UnrecognizedClientException": Wrong, "InvalidClientTokenId": Wrong, "InvalidAccessKeyId": Wrong, "InvalidToken": Wrong,
	"InvalidSignatureException": Wrong, "SignatureDoesNotMatch": Wrong, "IncompleteSignatureException": Wrong, "IncompleteSignature": Wrong,
	"MissingAuthenticationTokenException": Wrong, "MissingAuthenticationToken": Wrong, "MissingAuthentication": Wrong, "AuthFailure": Wrong,
}

// OfCode is the fault that a code of AWS names.
func OfCode(code string) Fault { return faults[code] }

// Of is the fault that an error of the SDK names.
func Of(err error) Fault {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return OfCode(api.ErrorCode())
	}
	return None
}
