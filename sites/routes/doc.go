// Package routes finds out which of a site's own limits its requests are under, as far as
// its responses show. It is pure: now is an argument.
//
// A request belongs to a route: a method and a path in which values are stars. A group is
// one limit and the routes that share it. Table connects both.
package routes
