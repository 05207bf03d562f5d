// Package learn reads one HTTP response for rate limits: whether it is a refusal, for
// which scope and until when, and which limits it announces with how many units left
// of each.
//
//	lesson := learn.Read(response.StatusCode, response.Header, head, learn.Request{
//		Method: "GET", Host: "api.github.com", Path: "/user",
//	}, time.Now())
//	if lesson.Throttled && !lesson.RetryAt.IsZero() {
//		// send nothing in lesson.Scope before lesson.RetryAt
//	}
//
// It is pure: between two responses it keeps only a cache of the meaning of header
// names. Servers are not trusted: malformed values are ignored,
// times are limited to 31 days, and no input causes a panic.
//
// A response is read in this order. Header names are normalised and parsed
// into a family, a dimension and a role (name.go). Values are numbers (number.go),
// times (when.go) or lists of items (item.go). The headers of one family and
// dimension make one limit (group.go); families that agree are merged.
// Dialects, one for each service, add what the general rules cannot know (dialects.go),
// also from bodies (body.go). Then the lesson is made of all (read.go, sum.go).
package learn
