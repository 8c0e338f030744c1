from cisr.cli import main

main()
