import Configuration
import Testing

@Suite struct IncludeTests {
    @Test func `files are read by letters, upper before lower case of the same one`() {
        let others = ["b.conf", "a.conf", "B.conf", "A.conf", "ab.conf", "aB.conf", "c.txt", ".conf", "10.conf", "9.conf"]
            .reduce(into: [String: String]()) { $0["d/\($1)"] = "connection \($1)\naddress h\ntopic #\n" }
        let result = read("include_dir d\n", others: others)
        #expect(!result.hasErrors)
        #expect(
            result.configuration.bridges.map(\.name) == [
                "10.conf", "9.conf", "A.conf", "a.conf", "aB.conf", "ab.conf", "B.conf", "b.conf",
            ])
    }

    @Test func `an included file's section ends with it, and the main file's goes on`() {
        let result = read(
            "allow_anonymous true\nlistener 1\ninclude_dir d\nmax_qos 1\n", others: ["d/a.conf": "listener 2\nmax_qos 0\n"])
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.qosMax) == [1, 0])
    }

    @Test func `a diagnostic names the included file`() {
        let result = read("password_file a\ninclude_dir d\n", others: ["d/a.conf": "\npassword_file b\n"])
        #expect(
            result.texts == [
                "Error: d/a.conf:2: password_file: Duplicate password_file value in configuration, given before on m.conf:1."
            ])
    }

    @Test func `include_dir has no effect in an included file`() {
        let result = read("include_dir d\n", others: ["d/a.conf": "include_dir d\n"])
        #expect(result.texts == ["Warning: d/a.conf:1: include_dir: it has no effect in an included file."])
    }

    @Test func `variables of the environment are put in where the file asks for it`() {
        let environment = ["HOME_DIR": "/home", "TWO": "a b", "BAD": "x\ny"]
        let on = "martlet_expand_environment true\n"
        let result = read("user $x ${HOME_DIR}/${TWO} $${TWO}\n" + on, environment: environment)
        #expect(result.texts == [])
        #expect(result.configuration.general.userName == "$x /home/a b ${TWO}")
        #expect(read("user ${TWO}\n", environment: environment).configuration.general.userName == "${TWO}")
        #expect(
            read(on + "user ${NONE}\nuser ${TWO\nuser ${BAD}\n", environment: environment).texts == [
                #"Error: m.conf:2: user: the environment has no variable "NONE"."#,
                #"Error: m.conf:3: user: "${" has no "}" after it."#,
                "Error: m.conf:4: user: a variable of the environment holds a control character.",
            ])
    }

    @Test func `the environment's persistence location counts when the file has none`() {
        let environment = ["MOSQUITTO_PERSISTENCE_LOCATION": "/env"]
        #expect(read("", environment: environment).configuration.persistence.location == "/env")
        #expect(read("persistence_location /file", environment: environment).configuration.persistence.location == "/file")
    }
}
