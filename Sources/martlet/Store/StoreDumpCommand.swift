import ArgumentParsing
import BrokerCore
import BrokerModel
import MartletServer
import Persistence
import Platform

/// `martlet store dump`: prints all of a store.
struct StoreDumpCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dump",
        abstract: "Print every record as a line of JSON; exits with 1 if any is damaged.",
        discussion: """
            Keys are strings, since they have 64 bits. Payloads are strings where they are UTF-8, else Base64 under a name that says so. Times \
            are milliseconds since 1970. Damaged records are reported on standard error.
            """)

    @OptionGroup var place: StorePlace

    func run() throws {
        let (directory, name) = try place.path()
        let isShown = Terminal.isAttached(to: 1)
        let summary = try StoreFailure.told { () throws(StoreError) in
            try SQLiteStore.check(directory, named: name) { table, key, body in
                // What clients have written does nothing to a terminal.
                let row = Array(StoreRowText.json(table, key: key, body: body).utf8)
                Console.put((isShown ? TerminalText.json(row) : row) + [UInt8(ascii: "\n")], to: 1)
                return table.hasMeaning(key: key, body: body)
            }
        }
        for damage in summary.damages { Console.complain("\(damage)") }
        if !summary.damages.isEmpty { throw ExitCode(1) }
    }
}
