package device

// CloseCards has the next Open be the first. A card that has failed says so once more.
func CloseCards() {
	for _, c := range openCards {
		_ = c.close()
	}
	clear(openCards)
}
