// Package advice says which limits hold requests back, and which change would help. It is pure:
// Advise goes by Facts alone. Each rule is a function from Facts to advice.
package advice
