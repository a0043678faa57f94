"""Who looks at the dashboard: sessions, cookies, and proof that a form is ours."""
