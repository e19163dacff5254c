// Package rolecreds tests the client of package fastclient with the credentials of a role, as
// EC2 and ECS give them to a program: the SDK's own configuration, and a server that speaks
// their protocols. The tests stand in this module because the library's does not require the
// SDK's configuration.
package rolecreds
