// Package lists makes lists of others, and finds items.
package lists

import "slices"

// Find returns the first item of a list that is wanted; nil if none is.
func Find[T any](list []T, wanted func(*T) bool) *T {
	for i := range list {
		if wanted(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// Only returns the items of a list that are wanted, in another list.
func Only[T any](list []T, wanted func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(item T) bool { return !wanted(item) })
}

// Map returns what f makes of each item of a list, in order; nil for a list without items.
func Map[T, U any](list []T, f func(T) U) []U {
	if len(list) == 0 {
		return nil
	}
	made := make([]U, len(list))
	for i, item := range list {
		made[i] = f(item)
	}
	return made
}
