//go:build conformance

package conformance_test

var quotaConfigCases, quotaEditCases, quotaClockCases []interopCase
