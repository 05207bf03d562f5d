// Package lists makes lists of others.
package lists

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
