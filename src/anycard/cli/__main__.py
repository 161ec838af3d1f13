from anycard.cli.main import main

main()
