import Testing

@testable import BrokerModel

/// Addresses by their first bits.
struct AddressRangeTests {
    @Test(arguments: [
        ("192.0.2.0/24", "192.0.2.255", true), ("192.0.2.0/24", "192.0.3.0", false), ("192.0.2.7", "192.0.2.7", true),
        ("192.0.2.7", "192.0.2.6", false), ("0.0.0.0/0", "203.0.113.9", true), ("192.0.2.128/25", "192.0.2.127", false),
        ("::/0", "192.0.2.1", true), ("::/0", "2001:db8::1", true), ("2001:db8::/32", "2001:db8:ffff::1", true),
        ("2001:db8::/32", "2001:db9::1", false), ("::1", "::1", true), ("::1", "0:0:0:0:0:0:0:1", true),
        ("fe80::1", "fe80::1%eth0", true), ("192.0.2.1", "::ffff:192.0.2.1", true), ("::ffff:192.0.2.0/120", "192.0.2.9", true),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", true), ("0.0.0.0/0", "/run/martlet.sock", false), ("1::", "1::", true),
    ])
    func `an address is in the range or not`(range: String, address: String, isIn: Bool) throws {
        #expect(try #require(AddressRange(range)).contains(address) == isIn)
    }

    @Test(arguments: [
        "", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/-1", "192.0.2.0/+1", "192.0.2.256", "1.2.3.4.5", ":::", "1::2::3",
        ":1", "1:", "1:2:3:4:5:6:7:8:9", "12345::", "::/129", "host", "1:2:3:4:5:6:7", "192.0.2.0/24/8",
    ])
    func `what is no address and no range is none`(text: String) {
        #expect(AddressRange(text) == nil)
    }
}
