import MartletTestKit
import Testing

/// The malformed, illegal and odd inputs that are written down one by one.
@Suite struct WrittenInputTests {
    @Test(arguments: InputTable.names, [1, 4])
    func `each input gets the answer that the standard asks for`(table: String, shards: Int) {
        let cases = InputTable.read(table)
        #expect(!cases.isEmpty)
        InputCheck(shards: shards).run(cases)
    }

    @Test(arguments: InputTable.names)
    func `each input that comes byte by byte gets the same answer`(table: String) {
        InputCheck(shards: 1, delivery: .byteByByte).run(InputTable.read(table))
    }
}
