// Package openapi describes an API of HTTP as a document of OpenAPI 3.1. Schemas are made from
// the Go types that are sent, so that they cannot differ from them.
package openapi
