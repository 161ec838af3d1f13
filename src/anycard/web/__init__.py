"""The pages a person looks at. They ask the same services as the API; docs/page.md says how to add one."""
