import BrokerModel
import Testing

@testable import LoginServices

@Suite struct DirectoryTests {
    private let login = LDAPLogin(user: Array("b,o+b(*)\\".utf8), entry: "uid=x,dc=y")

    private func encoded(_ filter: String) throws(LDAPTextError) -> [UInt8] { try LDAPFilter(filter).encoded(for: login) }

    @Test(arguments: [
        ("(uid=a)", BER.value(0xA3, BER.octets("uid") + BER.octets("a"))),
        ("(uid=%u)", BER.value(0xA3, BER.octets("uid") + BER.octets("b,o+b(*)\\"))),
        ("(member=%d)", BER.value(0xA3, BER.octets("member") + BER.octets("uid=x,dc=y"))),
        ("(cn=a\\2a\\28\\C3\\a4)", BER.value(0xA3, BER.octets("cn") + BER.octets("a*(ä"))),
        ("(cn=)", BER.value(0xA3, BER.octets("cn") + BER.octets(""))),
        ("(cn=*)", BER.value(0x87, Array("cn".utf8))),
        ("(n>=1)", BER.value(0xA5, BER.octets("n") + BER.octets("1"))),
        ("(n<=1)", BER.value(0xA6, BER.octets("n") + BER.octets("1"))),
        ("(n~=1)", BER.value(0xA8, BER.octets("n") + BER.octets("1"))),
        ("(&)", [0xA0, 0]),
        ("(!(cn=*))", BER.value(0xA2, BER.value(0x87, Array("cn".utf8)))),
        (
            "(|(cn=*)(sn;lang-de=*))",
            BER.value(0xA1, BER.value(0x87, Array("cn".utf8)) + BER.value(0x87, Array("sn;lang-de".utf8)))
        ),
        (
            "(cn=a*%u*c)",
            BER.value(
                0xA4,
                BER.octets("cn")
                    + BER.value(
                        0x30,
                        BER.value(0x80, [0x61]) + BER.value(0x81, Array("b,o+b(*)\\".utf8)) + BER.value(0x82, [0x63])))
        ),
        ("(cn=*a)", BER.value(0xA4, BER.octets("cn") + BER.value(0x30, BER.value(0x82, [0x61])))),
        (
            "(memberOf:1.2.840.113556.1.4.1941:=%d)",
            BER.value(
                0xA9,
                BER.value(0x81, Array("1.2.840.113556.1.4.1941".utf8)) + BER.value(0x82, Array("memberOf".utf8))
                    + BER.value(0x83, Array("uid=x,dc=y".utf8)))
        ),
        ("(o:dn:=a)", BER.value(0xA9, BER.value(0x82, [0x6F]) + BER.value(0x83, [0x61]) + [0x84, 1, 0xFF])),
    ])
    func `a filter is encoded with the user's name as a value, whatever is in it`(filter: String, expected: [UInt8]) throws {
        #expect(try encoded(filter) == expected)
    }

    @Test(arguments: [
        "", "uid=a", "(uid=a", "(uid=a))", "(uid)", "(&(uid=a)", "(=a)", "(u id=a)", "(cn=a(b)", "(cn=\\2)", "(cn=\\zz)",
        "(n>=a*b)",
        "(:=a)", "(!)", "()", String(repeating: "(!", count: 40) + "(a=b)" + String(repeating: ")", count: 40),
    ])
    func `what is no filter is refused`(filter: String) {
        #expect(throws: LDAPTextError.self) { try LDAPFilter(filter) }
    }

    @Test(arguments: [
        ("bob", "uid=bob,dc=x"), ("b,ou=c", "uid=b\\,ou\\=c,dc=x"), (" a ", "uid=\\ a\\ ,dc=x"), ("#a", "uid=\\#a,dc=x"),
        ("a+b\"<>;\\", "uid=a\\+b\\\"\\<\\>\\;\\\\,dc=x"), ("ä", "uid=ä,dc=x"), ("a\nb", "uid=a\\0ab,dc=x"), (" ", "uid=\\ ,dc=x"),
        ("%d", "uid=%d,dc=x"),
    ])
    func `in the name of an entry a user's name is one value`(user: String, expected: String) {
        #expect(LDAPTemplate(Array("uid=%u,dc=x".utf8)).entryName(for: LDAPLogin(user: Array(user.utf8))) == expected)
    }

    @Test func `what is encoded is read again, and what is broken is not`() {
        for number: Int32 in [0, 1, 127, 128, 255, 256, 65_535, 65_536, .max, -1] {
            var reader = BERReader(BER.integer(number)[...])
            #expect(reader.integer() == Int(number))
        }
        for count in [0, 1, 127, 128, 255, 256, 70_000] {
            let bytes = BER.octets([UInt8](repeating: 7, count: count))
            var reader = BERReader(bytes[...])
            #expect(reader.next(0x04)?.count == count)
            #expect(reader.next() == nil)
            var cut = BERReader(bytes.dropLast())
            if count > 0 { #expect(cut.next() == nil) }
        }
        var endless = BERReader([0x04, 0x85, 1, 1, 1, 1, 1][...])
        #expect(endless.next() == nil)
        var indefinite = BERReader([0x30, 0x80, 0, 0][...])
        #expect(indefinite.next() == nil)
    }

    private func refusal(_ naming: LDAPNaming, _ user: String, _ attributes: [String: [String]]?) -> String? {
        naming.refusal(
            of: LDAPLogin(user: Array(user.utf8)), attributes.map { LDAPEntry(name: "uid=x,dc=y", attributes: $0) })?.words
    }

    @Test(arguments: [
        ("(uid=%u)", "ann", ["uid": ["ann"]], true), ("(uid=%u)", "ANN", ["uid": ["ann"]], false),
        ("(uid=%u)", "ann ", ["uid": ["ann"]], false), ("(uid=%u)", "Ann", ["uid": ["a", "Ann"]], true),
        ("(uid=%u)", "ann", ["uid": ["Ann"]], false), ("(&(objectClass=person)(UID=%u))", "Ann", ["uid": ["ann"]], false),
        ("(|(uid=%u)(mail=%u@example.org))", "ann", ["uid": ["a7"], "mail": ["ann@example.org"]], true),
        ("(|(uid=%u)(mail=%u@example.org))", "ann", ["uid": ["a7"], "mail": ["Ann@example.org"]], false),
        ("(mail=%u@*.org)", "ann", ["mail": ["ann@example.org"]], true),
        ("(mail=%u@*.org)", "ann", ["mail": ["ANN@example.org"]], false),
        ("(mail=*%u*.org)", "a@", ["mail": ["x@a@.org"]], true), ("(mail=a*%u*a)", "a", ["mail": ["aa"]], false),
        ("(uid:caseIgnoreMatch:=%u)", "ANN", ["uid": ["ann"]], false),
        ("(&(uid=%u)(!(description=%u)))", "ANN", ["uid": ["ann"], "description": ["ANN"]], false),
        ("(uid=%u)", "ann", [:], true), ("(uid=%u)", "ANN", [:], false), ("(uid=%u)", "a b", [:], false),
        ("(uid=%u)", "ä", [:], false), ("(uid=a)", "ANN", ["uid": ["a"]], false),
    ])
    func `a user's name counts as the directory spells it`(
        filter: String, user: String, attributes: [String: [String]], isRight: Bool
    ) throws {
        #expect((refusal(LDAPNaming(try LDAPFilter(filter)), user, attributes) == nil) == isRight)
    }

    @Test(
        arguments: [
            ("uid=%u,ou=people,dc=x", "uid", "ann", "ann"), ("cn=a-%u-b+ou=c,dc=x", "cn", "ann", "a-ann-b"),
            ("ou=x, CN = %u", "CN", "ann", "ann"), ("%u@example.org", nil, "ann", "ann"), ("%u=x", nil, "ann", "ann"),
        ] as [(String, String?, String, String)])
    func `the name of an entry says which attribute has the user's`(
        entry: String, attribute: String?, user: String, value: String
    ) {
        let naming = LDAPNaming(ofEntry: Array(entry.utf8))
        #expect(naming.attributes == (attribute.map { [$0] } ?? []))
        let attributes = attribute.map { [$0.lowercased(): [value]] }
        #expect(refusal(naming, user, attributes) == nil)
        #expect(refusal(naming, user.uppercased(), attributes) != nil && refusal(naming, "ANN", nil) != nil)
    }

    @Test func `the log says how the directory spells a name`() throws {
        let naming = LDAPNaming(try LDAPFilter("(uid=%u)"))
        #expect(refusal(naming, "ANN", ["uid": ["a\"nn"]]) == #"the directory has another spelling of its name: "a\"nn""#)
    }
}
