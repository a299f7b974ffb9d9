"""What order-book files hold and whether `prepare` takes them (`walkforward data inspect`)."""
