"""Random text in several languages and scripts: words, sentences, titles and names."""

from dataclasses import dataclass

from recrawl.sim.pages.draws import Draws

__all__ = ["LANGUAGES", "Language"]


@dataclass(frozen=True, slots=True)
class Language:
    """A vocabulary and the rules by which sentences are made of it.

    Parameters
    ----------
    code
        Language tag, as in the attribute ``lang``.
    words
        Words that have a meaning of their own.
    little_words
        Articles, prepositions and the like, which stand between them.
    direction
        Direction of writing, ``ltr`` or ``rtl``.
    joiner
        Text between two words; empty in Chinese and Japanese.
    stop
        Full stop, with the space after it.
    legacy_charset
        Charset that servers may claim by mistake.
    """

    code: str
    words: tuple[str, ...]
    little_words: tuple[str, ...]
    direction: str = "ltr"
    joiner: str = " "
    stop: str = ". "
    legacy_charset: str = "iso-8859-1"

    def sentence(self, draws: Draws) -> str:
        """Return a sentence of 6 to 18 words, without the space after it."""
        parts = []
        n_words = draws.integer(6, 18)
        for i in range(n_words):
            is_little = self.little_words and (i % 3 == 0 or draws.chance(0.15))
            parts.append(draws.choose(self.little_words if is_little else self.words))
            if self.joiner and 3 < i < n_words - 2 and draws.chance(0.1):
                parts[-1] += ","
        text = self.joiner.join(parts)
        return text[0].upper() + text[1:] + self.stop.strip()

    def paragraph(self, draws: Draws, n_sentences: int) -> str:
        """Return several sentences."""
        space = " " if self.stop.endswith(" ") else ""
        return space.join(self.sentence(draws) for _ in range(n_sentences))

    def title(self, draws: Draws, n_words: int) -> str:
        """Return a headline."""
        text = self.joiner.join(draws.sample(self.words, n_words))
        return text[0].upper() + text[1:]

    def label(self, draws: Draws, n_words: int = 1) -> str:
        """Return a short label, such as an entry of a menu."""
        return self.title(draws, n_words)

    def other_word(self, draws: Draws, word: str) -> str:
        """Return a word that differs from ``word``."""
        other = draws.choose(self.words)
        return other if other != word else self.words[self.words.index(word) - 1]


def person(draws: Draws) -> str:
    """Return the name of a person."""
    return f"{draws.choose(_FIRST_NAMES)} {draws.choose(_LAST_NAMES)}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST_NAMES = _words(
    "Ada Amir Ana Beatriz Carlos Chen Dana Elena Emeka Farid Grace Hana Ines Ivan Jonas Kaya "
    "Lena Liam Maria Mei Nadia Noah Omar Priya Rosa Sami Sofia Tomas Uma Victor Wanda Yuki Zoe"
)
_LAST_NAMES = _words(
    "Abe Alvarez Baker Berg Costa Dubois Eze Fischer Garcia Haddad Ito Jansen Kim Kowalski "
    "Larsen Li Martin Moreau Nguyen Novak Okafor Patel Quinn Rossi Sato Silva Tanaka Weber "
    "Yilmaz"
)

_ENGLISH = _words(
    "account agency agreement airport analysis answer archive area assembly audience autumn "
    "balance bank battery board border branch bridge budget builder building business cable "
    "camera campaign capacity capital centre century chair chapter circle citizen climate coast "
    "college colour committee company concert condition contract copper corner cost council "
    "country course court crew crowd culture customer daily danger data debate decade decision "
    "defence delay delivery demand department deposit design detail device dinner direct "
    "district doctor document domestic draft drama dream early economy edition editor effect "
    "election electric energy engine entire estate evening event evidence exchange expert "
    "export factory failure family farmer fashion feature festival field figure finance finding "
    "fire flight flood focus foreign forest formal forward fuel function funding future garden "
    "gas general glass global government grain grant ground growth guide harbour health heavy "
    "history holiday hospital hotel house housing human image impact import income index "
    "industry inquiry insurance interest island item journal judge junior kitchen labour land "
    "language large launch leader league learning lecture legal letter level library licence "
    "limit line list local logistics machine magazine major manager manual margin market master "
    "material matter measure medical meeting member memory message metal method middle mineral "
    "minister mobile model modern money month morning motor mountain museum music national "
    "nature network night notice number nurse object ocean offer office officer online opening "
    "operator option order organ origin outside owner package page paper parent park partner "
    "party passage patient pattern payment people period permit person phone phrase pilot "
    "pipeline planet plant platform player policy pool port position post power practice "
    "premium press price print private problem process product profit program project promise "
    "property protest public quality quarter question quick railway range rapid rate reader "
    "reason recent record reform region regular release remote repair report request rescue "
    "research resident resource response result return revenue review river road rule rural "
    "safety salary sample scheme school science screen season second section sector security "
    "senior series service session settlement shelter shipping signal silver site skill small "
    "social software solar source south spring square stable staff stage standard station steel "
    "stock storage store storm strategy street strike student study success summer supply "
    "support surface survey system tariff teacher team technology tenant term theatre theory "
    "ticket timber total tourism tower track trade traffic training transport travel treaty "
    "trial tunnel union unit update urban user valley value vehicle version village visitor "
    "voice volume voter warehouse water weather weekly welfare west wheat window winter wire "
    "witness worker workshop world writer year young zone announced builds carries closes "
    "confirms considers covers creates delivers describes expands expects explains finds "
    "follows gains improves includes increases introduces keeps leaves limits maintains moves "
    "needs offers opens plans prepares presents prevents produces promises protects provides "
    "publishes raises receives reduces refuses remains removes replaces requires returns "
    "reveals seeks serves shares starts supports tests uses warns wins works"
)
_GERMAN = _words(
    "Abschnitt Anfrage Angebot Antwort Arbeit Aufgabe Ausgabe Auskunft Bahnhof Behörde Beitrag "
    "Bericht Betrag Brücke Bürger Büro Daten Dienst Einkauf Energie Ergebnis Erklärung Fläche "
    "Frage Führung Gebäude Gebühr Gemeinde Geschäft Gesetz Größe Handel Jahr Kosten Kunde Land "
    "Leistung Lieferung Maßnahme Menge Nachricht Öffnung Preis Prüfung Qualität Regel Schule "
    "Sicherheit Stadt Straße Straßenbahn Tag Übung Umwelt Verkehr Vertrag Verwaltung Wasser "
    "Werk Zahl Zeitung ändert beginnt bleibt erhöht erklärt führt gehört größer hält kündigt "
    "lässt öffnet prüft schließt übernimmt verfügt wächst zählt"
)
_FRENCH = _words(
    "accès accord achat activité adresse affaire agence année appel article association avenir "
    "bâtiment budget bureau campagne centre château choix cité client collège comité commande "
    "conseil côté création décision délai département développement données école économie "
    "élection énergie équipe espace État étude événement famille forêt formation gare "
    "gouvernement hôpital hôtel île industrie journée loi lumière maison marché matière mesure "
    "métier ministère musée nombre numéro œuvre page pays période préfet prix procès qualité "
    "réforme région règle réponse réseau route santé sécurité semaine société système théâtre "
    "travail université vérité ville"
)
_SPANISH = _words(
    "acción acuerdo agua año archivo artículo ayuda barrio cambio campaña canción capítulo "
    "ciudad código comunicación consejo crédito cuestión década decisión desarrollo día "
    "dirección economía edición educación ejército elección empresa energía españa estación "
    "estudio fábrica gestión gobierno habitación historia información invierno jardín libro "
    "línea lugar mañana medio mercado montaña música niño noche número océano opinión país "
    "página periódico pequeño población política precio región reunión salud señal servicio "
    "sistema tamaño teléfono trabajo turismo última unión"
)
_RUSSIAN = _words(
    "автор адрес анализ билет больница бюджет ветер вечер власть внимание вода возраст вопрос "
    "время встреча выбор газета глава город граница группа данные движение дерево договор "
    "документ дорога завод закон здание зима знание игра институт интерес история карта книга "
    "команда комитет лето мера место министр мнение море музей музыка народ наука область "
    "общество организация остров ответ отчёт память план погода поезд помощь порядок правило "
    "праздник проблема программа проект процесс работа развитие район решение река рынок "
    "система служба событие совет страна стол театр улица условие услуга учитель фонд центр "
    "цена школа экономика энергия язык"
)
_ARABIC = _words(
    "اتفاق اجتماع أخبار إدارة أرض أسبوع اقتصاد إقليم أمن انتخابات إنتاج بحث برنامج بلد بناء "
    "بيان تاريخ تجارة تحليل تعليم تقرير تنمية ثقافة جامعة جديد جريدة جزيرة حدث حديقة حرية حكومة "
    "حوار خدمة خطة دراسة دعم دولة رئيس رسالة زراعة زيارة سبب سعر سفر سوق سياحة شارع شركة صحة "
    "صناعة صوت ضوء طاقة طريق ظروف عاصمة عالم عدد عقد علم عمل فريق فصل قانون قرار قرية قطاع كتاب "
    "كلمة لجنة لغة ماء مبنى متحف مجلس محطة مدرسة مدينة مركز مستشفى مستقبل مشروع مطار معرض مكتب "
    "مهرجان موقع ميناء نتيجة نظام نهر هدف وزارة وطن وقت يوم"
)
_HEBREW = _words(
    "אבן אגודה אוויר אוניברסיטה אור אזור אזרח איכות אירוע אנרגיה ארגון ארץ בדיקה בחירה בית "
    "בנייה בקשה בריאות גבול גינה דוח דלת דרך הודעה החלטה הסכם הצעה השקעה ועדה זמן זכות חברה חג "
    "חדשות חוק חורף חינוך חנות טבע טכנולוגיה יום ים ישיבה כביש כלכלה כנס כסף כתבה לוח לימוד "
    "לקוח מבנה מדינה מדע מוזיאון מועצה מחיר מחקר מטרה מים מכתב ממשלה מסמך מערכת מפעל מקום מרכז "
    "משפחה נהר נושא נתון סביבה סדנה סיור ספר עבודה עולם עונה עיר עיתון עמוד פארק פעולה פרויקט "
    "צוות קבוצה קהילה קיץ רופא רכבת רשות רשת שאלה שוק שינוי שירות שכונה שנה תוכנית תחבורה תחנה "
    "תיאטרון"
)
_CHINESE = _words(
    "安全 办法 报告 比赛 变化 标准 表示 城市 成果 传统 创新 措施 大学 代表 地区 电影 调查 动物 "
    "对象 发布 发展 法律 方案 分析 服务 改革 干部 高校 工程 公司 关系 管理 规划 国家 过程 海洋 "
    "合作 环境 活动 机构 基础 技术 计划 记者 价格 建设 健康 交通 教育 结构 金融 经济 精神 开放 "
    "科学 空间 历史 利益 联合 粮食 领导 旅游 贸易 媒体 民族 模式 能源 农村 品牌 平台 企业 气候 "
    "情况 区域 全球 人民 任务 社会 设备 生产 世界 市场 事业 试验 数据 水平 体育 投资 网络 文化 "
    "问题 系统 项目 消费 信息 学校 研究 医院 艺术 音乐 影响 运动 战略 政策 支持 制度 质量 中心 "
    "重点 专家 资源 组织"
)
_JAPANESE = _words(
    "安全な 医療の 一般の 運営を 映画は 駅前で 開発が 会議の 環境を 企画に 技術は 教育の 業務を "
    "経済が 計画は 研究を 建物の 公園で 交通が 国際的な 最新の 作品を 参加者が 産業の 市場で "
    "自然を 施設の 資料が 社会に 住民の 情報を 商品が 食品の 新聞は 人口が 政府は 生活を 世界の "
    "製品が 説明を 選手が 送料は 大学の 地域で 知識を 調査が 通信の 展示を 電車は 道路の 都市で "
    "動画を 図書館の 内容が 日本の 農業を 発表された 番組の 費用が 評価を 病院で 文化の 平均が "
    "法律は 方法を 募集が 目的の 問題を 野菜は 予約が 料理の 旅行を 歴史が 連絡を 始まる 続ける "
    "行われた 高まる 変わる 増えている 支える"
)

LANGUAGES = {
    "en": Language(
        "en",
        _ENGLISH,
        _words("the a of in for with from to and on by at this its their under about after"),
    ),
    "de": Language("de", _GERMAN, _words("der die das ein für mit von über auf nach und")),
    "fr": Language("fr", _FRENCH, _words("le la les un une de à pour avec dans sur où")),
    "es": Language("es", _SPANISH, _words("el la los una de para con según en más y")),
    "ru": Language(
        "ru",
        _RUSSIAN,
        _words("в на по для из с о от и что"),
        legacy_charset="windows-1251",
    ),
    "ar": Language(
        "ar",
        _ARABIC,
        _words("في من على إلى عن مع هذا بعد"),
        direction="rtl",
        legacy_charset="windows-1256",
    ),
    "he": Language(
        "he",
        _HEBREW,
        _words("של על עם את אל לא גם"),
        direction="rtl",
        legacy_charset="windows-1255",
    ),
    "zh": Language("zh", _CHINESE, ("的", "在", "和", "对", "将"), joiner="", stop="。"),
    "ja": Language("ja", _JAPANESE, ("また", "この", "その"), joiner="", stop="。"),
}
