// Package status holds what abide shows of itself: plain structs with the JSON tags of the API,
// and the words in which people read them. The parts of the proxy fill the structs, package
// admin serves them as JSON and as the dashboard, and the commands of cmd/abide decode and
// print them. It imports nothing else of abide, and does no I/O except for writing text.
//
// A Normalize makes a struct fit to be shown: lists are bounded, in order and not null, times
// are in UTC. If you add a field, also describe it in docs/operating.md.
package status
