package device

import "cmp"

// CloseCards has the next Open be the first.
func CloseCards() (err error) {
	for _, c := range openCards {
		err = cmp.Or(err, c.close())
	}
	clear(openCards)
	return err
}
