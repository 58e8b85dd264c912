import Configuration
import Testing

@Suite struct PluginTests {
    private let dynamicSecurity = "plugin /usr/lib/mosquitto_dynamic_security.so\nplugin_opt_config_file /d.json\n"

    @Test func `a plug-in is known by the name of its file, and serves every listener`() {
        let result = read("listener 1\n" + dynamicSecurity + "listener 2\n")
        #expect(result.texts == [])
        for security in [result.configuration.security] + result.configuration.listeners.map(\.security) {
            #expect(security.plugins.map(\.plugin) == [.dynamicSecurity])
            #expect(security.plugins.first?.options == ["config_file": "/d.json"])
        }
    }

    @Test func `with per_listener_settings it serves its listener, and global_plugin all`() {
        let result = read(
            "per_listener_settings true\nglobal_plugin mosquitto_sparkplug_aware.so\nlistener 1\nallow_anonymous true\nlistener 2\n"
                + dynamicSecurity)
        #expect(!result.hasErrors)
        #expect(
            result.configuration.listeners.map { $0.security.plugins.map(\.plugin) } == [
                [.sparkplugAware], [.sparkplugAware, .dynamicSecurity],
            ])
    }

    @Test func `plugin_load names a plug-in, and plugin_use gives it to a listener`() {
        let result = read(
            """
            plugin_load pw /lib/mosquitto_password_file.so
            plugin_opt_password_file /pw
            listener 1
            plugin_use pw
            listener 2
            listener_allow_anonymous true
            """)
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.security.passwordFile) == ["/pw", nil])
    }

    @Test func `the plug-ins for the password and access files are the two options`() {
        let result = read(
            """
            plugin mosquitto_password_file.so
            plugin_opt_password_file /pw
            plugin mosquitto_acl_file.so
            plugin_opt_acl_file /acl
            plugin mosquitto_persist_sqlite.so
            """)
        #expect(result.texts == [])
        #expect(result.configuration.listeners[0].security.passwordFile == "/pw")
        #expect(result.configuration.listeners[0].security.accessControlFile == "/acl")
        #expect(result.configuration.persistence.isEnabled)
    }

    @Test func `a plug-in without what it needs, an option twice and an unused name are reported`() {
        #expect(
            read("plugin mosquitto_dynamic_security.so").texts == [
                "Error: m.conf:1: plugin: mosquitto_dynamic_security needs plugin_opt_config_file after it."
            ])
        #expect(
            read(dynamicSecurity + "plugin_opt_config_file x").texts == [
                "Error: m.conf:3: plugin_opt_config_file: Duplicate plugin_opt_config_file value in configuration."
            ])
        #expect(
            read("plugin_load a mosquitto_sparkplug_aware.so").texts == [
                "Warning: m.conf:1: plugin_load: no line plugin_use names it."
            ])
    }

    @Test(arguments: [
        (
            "mosquitto_acl_file.so\nplugin_opt_acl_file a\nplugin_opt_acl_fil a",
            "Warning: m.conf:3: plugin_opt_acl_fil: mosquitto_acl_file has no such option; it has no effect. Did you mean plugin_opt_acl_file?"
        ),
        (
            "mosquitto_password_file.so\nplugin_opt_password_file a\nplugin_opt_colour a",
            "Warning: m.conf:3: plugin_opt_colour: mosquitto_password_file has no such option; it has no effect. It has plugin_opt_password_file."
        ),
        (
            "mosquitto_sparkplug_aware.so\nplugin_opt_colour a",
            "Warning: m.conf:2: plugin_opt_colour: mosquitto_sparkplug_aware has no such option; it has no effect."
        ),
        (
            "mosquitto_persist_sqlite.so\nplugin_opt_sync full",
            "Warning: m.conf:2: plugin_opt_sync: it has no effect here: what is acknowledged is on the disk; martlet_durability makes weaker promises."
        ),
        (
            "mosquitto_persist_sqlite.so\nplugin_opt_sync sometimes",
            "Error: m.conf:2: plugin_opt_sync: found \"sometimes\", expected extra, full, normal or off."
        ),
        (
            "mosquitto_persist_sqlite.so\nplugin_opt_flush_period 5",
            "Warning: m.conf:2: plugin_opt_flush_period: it has no effect here: changes are saved as they come; martlet_durability interval SECONDS gathers them."
        ),
        (
            "mosquitto_persist_sqlite.so\nplugin_opt_page_size x",
            "Error: m.conf:2: plugin_opt_page_size: found \"x\", expected a number of bytes."
        ),
        (
            "mosquitto_persist_sqlite.so\nplugin_opt_page_size 8192",
            "Warning: m.conf:2: plugin_opt_page_size: it has no effect here: the store has pages of its own size."
        ),
        (
            "mosquitto_dynamic_security.so\nplugin_opt_config_file a\nplugin_opt_password_init_fil b",
            "Warning: m.conf:3: plugin_opt_password_init_fil: mosquitto_dynamic_security has no such option; it has no effect. Did you mean plugin_opt_password_init_file?"
        ),
    ])
    func `what becomes of a plug-in's option is said by its name`(_ lines: String, _ said: String) {
        #expect(read("plugin \(lines)").texts == [said])
    }

    @Test func `a foreign plug-in is one error, and its options none`() {
        #expect(read("plugin x.so\nplugin_opt_a b\n").diagnostics.count == 1)
    }
}
