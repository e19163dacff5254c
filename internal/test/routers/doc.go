// Package routers holds that the middleware of httplimit works with routers as docs/http.md
// shows it: net/http's ServeMux, chi, echo, gin, gorilla/mux, httprouter, and fiber and fasthttp
// through their adaptors. It contains only tests, and is a module of its own so that nobody
// else needs these routers.
package routers
