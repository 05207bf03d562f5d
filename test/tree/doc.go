// Package tree holds no code of abide. Its tests look at the whole repository: which package
// imports which, how large files and types are, which words names and comments have, where links
// of the papers lead, and what the image and the deployments say.
//
//	go test ./test/tree
package tree
